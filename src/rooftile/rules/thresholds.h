// From which share of a step on a rule speaks: one constant for each kind of reason. All are
// judgements, chosen so that a reader who follows the advice sees its effect.
#pragma once

namespace rooftile::threshold {

// Of the total time. Less is not worth a reader's minute, whatever the reason.
inline constexpr double kReported = 0.01;
// Nor is a change that likely saves less than this, or, where it may save nothing, the other.
inline constexpr double kSavingReported = 0.005, kUnsureReported = 0.01;

// Of a measured window. Steps of one program differ by a percent or two: the gain of less would not
// show in another run.
inline constexpr double kShowsInARun = 0.02;
// The same where only part of it can be saved.
inline constexpr double kPartlyShowsInARun = 0.03;

// Of an estimated time. The time model compares two shapes no better than to about a twentieth, so
// a smaller difference may be its own error.
inline constexpr double kBeyondModelError = 0.05;

// The change is work of a day: another precision, other weights, CUDA graphs.
inline constexpr double kWorthADay = 0.1;
// The change is a compilation of the whole model, which may fail.
inline constexpr double kWorthCompiling = 0.15;
// The change is another model, which is trained anew.
inline constexpr double kWorthTraining = 0.2;
// The same, with kernels that few libraries have: structured sparsity.
inline constexpr double kWorthSparsity = 0.3;

// More than half: what decides how long a step takes.
inline constexpr double kMost = 0.5;

}  // namespace rooftile::threshold
