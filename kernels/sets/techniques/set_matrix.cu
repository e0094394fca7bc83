// The matrix product on any card from Turing on: by bytes, and by differing bits (which Turing to Ada have in hardware; Hopper
// makes one of two products of common bits, and Blackwell of many of bytes).
#include "sets/techniques/set_matrix.cuh"

MATRIX(bytes, ByBytes)
MATRIX(xor, ByXor)
