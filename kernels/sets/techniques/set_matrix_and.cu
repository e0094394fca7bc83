// The matrix product by common bits, which Ampere to Hopper have in hardware.
// For compute_80.
#include "sets/techniques/set_matrix.cuh"

MATRIX(and, ByAnd)
