"""Claims of several papers asked again: in a larger hospital, of other notes, and about text not generated here."""
