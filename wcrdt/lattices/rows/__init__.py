"""Rows kept whole, by columns. Types that fold rows to less have families of their own."""
