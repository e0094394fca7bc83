// The matrix product on any card from Turing on: by bytes, and by differing bits (XOR, which Turing to Ada have in
// hardware; Hopper emulates it by two products of common bits, and Blackwell by many of bytes).
#include "sets/techniques/set_matrix.cuh"

MATRIX(bytes, ByBytes)
MATRIX(xor, ByXor)
