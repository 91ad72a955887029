"""How well kinds of alerts agree with true classes, and how well rules describe them, beside other methods."""
