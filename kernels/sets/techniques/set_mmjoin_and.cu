// MMJoin with products of bits, which Ampere to Hopper have in hardware.
// For compute_80.
#include "sets/techniques/set_mmjoin.cuh"

MMJOIN(and, ByAnd)
