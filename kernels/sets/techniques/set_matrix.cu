// The matrix product on any card from Turing on: by bytes.
#include "sets/techniques/set_matrix.cuh"

MATRIX(bytes, ByBytes)
