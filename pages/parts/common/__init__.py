"""What every page shares: the page frame, chart style, data tables, the glossary, marked PHI. No page's own content."""
