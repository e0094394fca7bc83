// Merge joins of presorted sides with keys of 4 bytes: merge.cuh.
#include "semi/merge.cuh"

MERGE_ALL(32, i32, i32)
MERGE_ALL(32, u32, u32)
