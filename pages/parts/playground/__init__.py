"""Parts of the Playground page: the session's prompts, answers side by side, counted leaks."""
