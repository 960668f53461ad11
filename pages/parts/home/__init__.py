"""Parts of the Home page: three small pictures."""
