"""Claims of several papers asked again: in a larger hospital, and about text that was not generated here."""
