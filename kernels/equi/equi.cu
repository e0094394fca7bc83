// Equi-joins: a probe row finds the build row, or the group of build rows, with its key.
//
// | strategy ([W] 3.1, but direct address) | here | bytes moved, for n build rows, m probe rows and r results |
// |---|---|---|
// | direct address | equi_direct_* | 4n scattered, 4m read and 4m gathered at random |
// | non-partitioned hash | equi_table_* | an atomic at random for n, 8 bytes at random for m |
// | partitioned hash | equi_part_* | 4 (n + m), 2 passes of 2 * 4 (1 + columns) (n + m), then each value once more |
// | sort-merge | equi_part_* over all bits, equi_merge_* | 4 or 8 passes of the same, then 2 * 4 (n + m) and 8m |
//
// All strategies join unique build keys in one pass over the probe side, and detect duplicate build keys themselves.
// With duplicate keys, the rows of a key are stored contiguously (equi_csr_*, or a partition by all bits and
// equi_heads_*), and the matches of a probe row are a range of build positions, as in range joins.
#include "equi/equi_csr.cuh"
#include "equi/equi_direct.cuh"
#include "equi/equi_merge.cuh"
#include "equi/partition/equi_part.cuh"
#include "equi/partition/equi_part_join.cuh"
#include "equi/equi_sample.cuh"
#include "equi/equi_table.cuh"
