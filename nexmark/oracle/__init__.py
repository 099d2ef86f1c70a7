"""Independent ways to the right answers: plain Python, and Spark SQL. They share no line with the engine."""
