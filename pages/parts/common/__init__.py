"""What every page shares: the frame, chart style, folded tables, the glossary, marked PHI. No page's own content."""
