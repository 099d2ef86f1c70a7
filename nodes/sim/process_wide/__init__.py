"""Parts of a seed that hold in the whole process until its run ends: where columns lie, which loops it has."""
