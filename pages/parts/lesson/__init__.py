"""Parts of the Lesson page: five steps, the figures that answer them, and the class on screen."""
