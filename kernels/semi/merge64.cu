// Merge joins of presorted sides with keys of 8 bytes: merge.cuh.
#include "semi/merge.cuh"

MERGE_ALL(64, i64, i64)
MERGE_ALL(64, u64, u64)
