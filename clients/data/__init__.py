"""A hospital's pictures: from a folder and a table to the arrays that training sees."""
