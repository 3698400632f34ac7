// A recording as text, for tests and specs: one event a line.
#pragma once

#include <string_view>

#include "rooftile/base/result.h"
#include "rooftile/workload/timeline.h"

namespace rooftile {

// Reads lines of these forms; times are written 10ns, 5us, 1.5ms or 2s.
//
//   op THREAD START DURATION NAME [id= seq= dims= strides= types= values=]
//   mark THREAD START DURATION NAME                  a range that the user named
//   python THREAD START DURATION NAME                "train.py(88): train_step"
//   call THREAD START DURATION NAME [corr= id=]      a CUDA runtime call
//   kernel STREAM START DURATION NAME [corr= id= grid=8,1,1 block= regs= shared=
//                                      collective= dtype= in= out= group= ranks=]
//   copy STREAM START DURATION HtoD|DtoH|DtoD|PtoP|HtoH [pageable bytes= corr= id=]
//   fill STREAM START DURATION [bytes= corr= id=]
//   sleep THREAD START DURATION                      off the CPU
//   memory AT BYTES [device= allocated= reserved=]
//   device ID NAME [sms= cc=9.0 memory=]
//   rank RANK of WORLD
//   format NAME
//   foreign
//   skipped COUNT NAME
//   repeat COUNT every PERIOD … end                  lines again, later, with ids of their own;
//                                                    {i} in a name is the number of the round
//
// THREAD is any word. STREAM is 7 or, on device 1, 1:7. Lists have no spaces:
// dims=[[768],[4096,768],[]] types=[float,float,Scalar]. A '#' between spaces starts a comment.
// Error: the line, and what it should have been.
Result<Timeline> parse_timeline(std::string_view text);

}  // namespace rooftile
