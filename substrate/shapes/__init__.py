"""Shapes that hold everywhere: semi-infinite problems solved by cutting planes, with lower and upper bounds."""
