"""Who may come in, and what they may do: rules, the viewer's standing, the sign-in page and the account menu."""
