"""Parts of the Report page: choosing models, the verdict on screen, the downloads."""
