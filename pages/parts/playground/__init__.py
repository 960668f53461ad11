"""Parts of the Playground: prompts of this session, answers side by side, counted leaks."""
