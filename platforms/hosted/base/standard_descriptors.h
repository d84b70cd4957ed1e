// Descriptors 0, 1 and 2.
#pragma once

namespace cria::hosted {

// Occupies those of standard input, output and error that the parent closed, so that no file gets
// their numbers and then what is meant for them. Reading and writing them still fails. Call first.
void occupy_standard_descriptors();

}  // namespace cria::hosted
