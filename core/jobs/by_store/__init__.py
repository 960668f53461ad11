"""Jobs on workers of an existing cluster that share only a store with the engine."""
