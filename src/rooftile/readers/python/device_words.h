// What a name says of a device.
#pragma once

#include <string_view>

#include "rooftile/base/text.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// local_rank, gpu_id
inline bool names_a_gpu(std::string_view word) { return contains_any(word, {"rank", "gpu"}); }

// device = util.get_cuda(0), of a file that was not given.
inline bool makes_gpu_device(const Call& call) {
  return call.target == nullptr &&
         is_one_of(call.method, {"get_cuda", "get_cuda_device", "get_gpu", "cuda_device",
                                 "get_gpu_device", "select_gpu", "try_gpu", "auto_select_gpu"});
}

}  // namespace rooftile::source
