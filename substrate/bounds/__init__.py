"""The distance of fitted values from the exact optimum, in double precision and in ball arithmetic."""
