"""Parts of the page Forget a patient: what is stored, live unlearning, the picture, and one prompt to every model."""
