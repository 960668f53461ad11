"""Parts of the Lesson: five steps, the figures that answer them, and the class on screen."""
