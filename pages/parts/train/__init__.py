"""Parts of the Train page: the settings of a run, each with its effect and cost."""
