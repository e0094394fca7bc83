// From the text of a kernel to its instructions.
#pragma once
#include "instruction.hpp"

/// The kernel whose `.entry` is there in the text of a module.
void compile(Module &, Kernel &, size_t at);

/// Gives one row to registers that are never alive together, so that a warp's registers stay in the cache.
void reuse_rows(Kernel &);
