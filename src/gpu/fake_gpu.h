// A GPU for tests: times follow a rule, and some operations are refused.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "gpu/bench.h"
#include "rooftile/hardware/device_file.h"

namespace rooftile::gpu {

class FakeGpu : public Gpu {
 public:
  using Time = std::function<Seconds(const Op&)>;

  explicit FakeGpu(Time time, const std::string& name = "l40s")
      : device_(find_device(name).value()), time_(std::move(time)) {}

  const Device& device() const override { return device_; }
  std::string versions() const override { return "driver 1.2\nlibrary 3.4"; }
  Conditions conditions() override {
    Conditions conditions;
    conditions.sm_clock = Hertz(1.5e9);
    conditions.power = Watts(300);
    return conditions;
  }
  Result<std::unique_ptr<PreparedOp>> prepare(const Op& op, const Rotation&) override {
    if (std::holds_alternative<Other>(op.body)) return fail("this kind is not measured");
    ++prepared;
    return std::make_unique<Prepared>(*this, time_(op));
  }

  Seconds now;  // advances with every run
  std::size_t prepared = 0, runs = 0;

 private:
  class Prepared : public PreparedOp {
   public:
    Prepared(FakeGpu& gpu, Seconds time) : gpu_(gpu), time_(time) {}
    Result<Seconds> run() override {
      ++gpu_.runs;
      gpu_.now += time_ * 1000;
      return time_;
    }
    std::string kernel() const override { return "fake \"kernel\", 128x128"; }

   private:
    FakeGpu& gpu_;
    Seconds time_;
  };

  Device device_;
  Time time_;
};

}  // namespace rooftile::gpu
