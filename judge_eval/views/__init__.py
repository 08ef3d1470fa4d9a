"""What people read: a run or a comparison as typed blocks, built once, with one writer for each medium."""
