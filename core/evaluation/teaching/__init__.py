"""The teaching pack: exercises with a computed key, and a handout with the figures of a class's runs.

Figures of runs enter; sheets for students and teachers leave, as Markdown or HTML.
"""
