#include "rooftile/analysis/time/time_model.h"

#include <algorithm>

#include "rooftile/analysis/cost.h"
#include "rooftile/analysis/time/cuda_core_gemm.h"
#include "rooftile/analysis/time/families.h"
#include "rooftile/analysis/time/math_unit.h"
#include "rooftile/analysis/time/product_time.h"
#include "rooftile/analysis/time/roofline_floor.h"
#include "rooftile/hardware/device_file.h"

namespace rooftile {
namespace {

bool has_same_rates(const Device& a, const Device& b) {
  return a.sms == b.sms && a.boost_clock == b.boost_clock &&
         a.tensor_core_peak == b.tensor_core_peak && a.dram_bandwidth == b.dram_bandwidth &&
         a.l2_size == b.l2_size && a.power_limit == b.power_limit &&
         a.dram_ecc_share == b.dram_ecc_share && a.cuda_core_peak == b.cuda_core_peak;
}

template <class Constants>
std::optional<ProductResidual<Constants>> residual_of(const Calibration& calibration,
                                                      const Section<Constants>& section,
                                                      const Device& device,
                                                      std::string_view product) {
  const bool measured_here = section.this_gpu;
  if (!calibration.residual || !section.own || (measured_here && !section.replaced)) {
    return std::nullopt;
  }
  const auto model = residual_for(measured_here ? section.residual_of : device.id, product);
  const auto reference = model ? find_device(model->gpu) : fail("no residual", "");
  if (!reference) return std::nullopt;
  const Constants& generation = measured_here ? *section.replaced : section.constants;
  ProductResidual<Constants> residual{model, *reference, scale_constants(generation, *reference),
                                      !measured_here && has_same_rates(device, *reference),
                                      std::nullopt};
  if (std::ranges::count(section.fitted_on, device.id) > 0) residual.widening = 1;
  if (section.residual_widening > 0) residual.widening = section.residual_widening;
  return residual;
}

GemmFits scaled(const Section<GemmConstants>& section, const Device& device) {
  GemmFits fits{scale_constants(section.constants, device), section.alternatives};
  for (auto& [weight, constants] : fits.alternatives) {
    constants = scale_constants(constants, device);
  }
  return fits;
}

// At the clocks that measurements found.
Device at_pace(Device device, const Calibration& calibration) {
  device.boost_clock = device.boost_clock * calibration.sm_clock;
  for (auto* peaks : {&device.tensor_core_peak, &device.cuda_core_peak}) {
    for (auto& [dtype, peak] : *peaks) peak = peak * calibration.sm_clock;
  }
  device.dram_bandwidth = device.dram_bandwidth * calibration.memory_clock;
  return device;
}

}  // namespace

struct TimeModel::State {
  Device device, running;
  std::shared_ptr<const Calibration> calibration;
  GemmFits tensor_gemm, fp8_gemm;
  CudaCoreConstants cuda_gemm;
  ProductResiduals residuals;

  State(const Device& given, std::shared_ptr<const Calibration> constants)
      : device(given),
        running(at_pace(given, *constants)),
        calibration(std::move(constants)),
        tensor_gemm(scaled(calibration->tensor_gemm, given)),
        fp8_gemm(scaled(calibration->fp8_gemm, given)),
        cuda_gemm(scale_constants(calibration->cuda_gemm.constants, given)),
        residuals{
            lazy(calibration->tensor_gemm, "bf16"), lazy(calibration->fp8_gemm, "fp8_quantized"),
            lazy(calibration->cuda_gemm, "fp32_linear"), lazy(calibration->cuda_gemm, "fp32_bmm")} {
  }

  TimeContext context(const StepState& step = {}) const {
    return {device, running, *calibration, tensor_gemm, fp8_gemm, cuda_gemm, residuals, step};
  }

 private:
  template <class Constants>
  Lazy<ProductResidual<Constants>> lazy(const Section<Constants>& section,
                                        const char* product) const {
    return Lazy<ProductResidual<Constants>>(
        [this, &section, product] { return residual_of(*calibration, section, device, product); });
  }
};

namespace {

// Where the families do not say it themselves.
Kernels kernels_of(const Op& op, Kernels of_parts) {
  if (std::holds_alternative<Convolution>(op.body)) return Kernels::convolution;
  const auto* attention = std::get_if<Attention>(&op.body);
  if (attention && attention->fused) return Kernels::attention;
  return is_matrix_op(op) ? of_parts : Kernels::streaming;
}

struct EstimateOp {
  const TimeContext& context;
  const Op& op;

  std::optional<TimeEstimate> operator()(const Gemm& gemm) const {
    return estimate_gemm(context, op, gemm);
  }
  std::optional<TimeEstimate> operator()(const Convolution& conv) const {
    return estimate_convolution(context, op, conv);
  }
  std::optional<TimeEstimate> operator()(const Attention& attention) const {
    return estimate_attention(context, op, attention);
  }
  std::optional<TimeEstimate> operator()(const Recurrent& rnn) const {
    return estimate_recurrent(context, op, rnn);
  }
  std::optional<TimeEstimate> operator()(const Collective& collective) const {
    return estimate_collective(context, op, collective);
  }
  template <class Body>
  std::optional<TimeEstimate> operator()(const Body&) const {
    return estimate_memory_bound(context, op);
  }
};

}  // namespace

Result<TimeModel> TimeModel::create(const Device& device) {
  auto calibration = calibration_for(device);
  if (!calibration) return tl::unexpected(calibration.error());
  return TimeModel(std::make_shared<const State>(device, std::move(*calibration)));
}

TimeModel::TimeModel(const Device& device)
    : state_(std::make_shared<const State>(device, calibration_for(device).value())) {}

TimeModel TimeModel::in_step(Bytes reads, Bytes distinct) const {
  TimeModel model = *this;
  const Bytes cold = std::max(Bytes(), distinct - device().l2_size);
  model.step_ = {distinct, reads > Bytes() ? cold / reads : 0};
  return model;
}

TimeModel TimeModel::without_winograd() const {
  TimeModel model = *this;
  model.takes_winograd_ = false;
  return model;
}

TimeModel TimeModel::with_attention_tile(const AttentionTile& tile) const {
  TimeModel model = *this;
  model.attention_tile_ = tile;
  return model;
}

TimeModel TimeModel::without_cache_update() const {
  TimeModel model = *this;
  model.updates_cache_ = false;
  return model;
}

std::optional<TimeEstimate> TimeModel::estimate(const Op& op) const {
  TimeContext context = state_->context(step_);
  context.takes_winograd = takes_winograd_;
  context.updates_cache = updates_cache_;
  context.attention_tile = attention_tile_;
  std::optional<TimeEstimate> estimate = std::visit(EstimateOp{context, op}, op.body);
  if (!estimate) return estimate;
  const Bytes from_dram = count_state(op) * step_.from_dram;
  add_floor(context, *estimate, from_dram / device().dram_bandwidth);
  // GEMMs have both from their products.
  if (std::holds_alternative<Gemm>(op.body)) return estimate;
  add_floor(context, *estimate, roofline_floor(op, state_->device));
  estimate->kernels = kernels_of(op, estimate->kernels);
  return estimate;
}

TimeEstimate TimeModel::estimate(const MatrixProduct& product) const {
  return estimate_product(state_->context(), product);
}

TimeEstimate TimeModel::estimate(const MatrixProduct& product, Tile tile, int split_k) const {
  ProductTraits traits;
  traits.tile = tile;
  traits.split_k = split_k;
  return estimate_product(state_->context(), product, traits);
}

const Device& TimeModel::device() const { return state_->device; }

bool TimeModel::calibrated() const {
  const bool tensor_cores = !state_->device.tensor_core_peak.empty();
  return tensor_cores ? is_measured(state_->calibration->tensor_gemm)
                      : is_measured(state_->calibration->cuda_gemm);
}

bool TimeModel::calibrated(Dtype math) const {
  const MathUnit unit = math_unit(state_->device, math);
  const Calibration& calibration = *state_->calibration;
  if (!unit.tensor_cores) return is_measured(calibration.cuda_gemm);
  return is_measured(unit.dtype == Dtype::fp8 ? calibration.fp8_gemm : calibration.tensor_gemm);
}

}  // namespace rooftile
