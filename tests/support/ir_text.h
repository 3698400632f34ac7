// Functions of the control-flow graph as text.
//
//   function "train.count"
//   b0:
//     %0 = parameter "n"
//     %1 = constant "2"
//     %2 = operation "<" %0 %1
//     if %2 b1 b2
//   b1: from b0
//     goto b3
//   b2: from b0
//     goto b3
//   b3: from b1 b2
//     %3 = phi "n" %1 %0
//     %4 = result %3
//     leave
//
// A loop's head ends with `either b1 b2`; a module and a class body with `exit "name" %3` for each
// name that they bind.
#pragma once

#include <string>

#include "rooftile/script/ir/function.h"

namespace rooftile::script {

std::string ir_text(const Function& function);

}  // namespace rooftile::script
