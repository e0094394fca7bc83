// Equi-joins: a row of the probe side finds the row of the build side, or the group of rows, that has its key.
//
// | strategy ([W] 3.1) | here | bytes moved, for n build rows, m probe rows and r results |
// |---|---|---|
// | direct address | equi_direct_* | 4n scattered, 4m read and 4m gathered at random |
// | non-partitioned hash | equi_table_* | an atomic at random for n, 8 bytes at random for m |
// | partitioned hash | equi_part_* | 4 (n + m), 2 passes of 2 * 4 (1 + columns) (n + m), then each value once more |
// | sort-merge | equi_part_* over all bits, equi_merge_* | 4 or 8 passes of the same, then 2 * 4 (n + m) and 8m |
//
// All of them take unique build keys in one pass over the probe side, and find out by themselves whether keys are unique. Where
// they are not, the rows of a key are brought together (equi_csr_*, or a partition by all bits and equi_heads_*), and a probe
// row's matches are a range of the build side's positions, as in range joins.
#include "equi/equi_csr.cuh"
#include "equi/equi_direct.cuh"
#include "equi/equi_merge.cuh"
#include "equi/partition/equi_part.cuh"
#include "equi/partition/equi_part_join.cuh"
#include "equi/equi_sample.cuh"
#include "equi/equi_table.cuh"
