// Physical quantities as types: SI base units inside, scaled once at the edge.
#pragma once

#include <compare>
#include <cstdint>

namespace rooftile {

// Of a size or count; exact up to 2^53.
constexpr double to_double(std::int64_t value) { return static_cast<double>(value); }

// A double that knows what it counts. Only quantities of one kind add and compare.
template <class Kind>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double value) : value_(value) {}

  constexpr double value() const { return value_; }

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.value_ + b.value_);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.value_ - b.value_);
  }
  friend constexpr Quantity operator*(Quantity a, double factor) {
    return Quantity(a.value_ * factor);
  }
  friend constexpr Quantity operator*(double factor, Quantity a) {
    return Quantity(a.value_ * factor);
  }
  friend constexpr Quantity operator/(Quantity a, double divisor) {
    return Quantity(a.value_ / divisor);
  }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value_ / b.value_; }

 private:
  double value_ = 0.0;
};

using Seconds = Quantity<struct SecondsKind>;
using Bytes = Quantity<struct BytesKind>;
using Flop = Quantity<struct FlopKind>;  // one multiply-add counts as 2
using BytesPerSecond = Quantity<struct BytesPerSecondKind>;
using FlopPerSecond = Quantity<struct FlopPerSecondKind>;
using FlopPerByte = Quantity<struct FlopPerByteKind>;  // arithmetic intensity, and a GPU's ridge
using Hertz = Quantity<struct HertzKind>;
using Watts = Quantity<struct WattsKind>;

constexpr Seconds operator/(Bytes traffic, BytesPerSecond rate) {
  return Seconds(traffic.value() / rate.value());
}
constexpr Seconds operator/(Flop work, FlopPerSecond rate) {
  return Seconds(work.value() / rate.value());
}
constexpr FlopPerSecond operator/(Flop work, Seconds time) {
  return FlopPerSecond(work.value() / time.value());
}
constexpr BytesPerSecond operator/(Bytes traffic, Seconds time) {
  return BytesPerSecond(traffic.value() / time.value());
}
constexpr FlopPerByte operator/(Flop work, Bytes traffic) {
  return FlopPerByte(work.value() / traffic.value());
}
constexpr FlopPerByte operator/(FlopPerSecond peak, BytesPerSecond bandwidth) {
  return FlopPerByte(peak.value() / bandwidth.value());
}

constexpr Seconds microseconds(double value) { return Seconds(value * 1e-6); }
constexpr Seconds milliseconds(double value) { return Seconds(value * 1e-3); }
constexpr double to_microseconds(Seconds time) { return time.value() * 1e6; }
constexpr double to_milliseconds(Seconds time) { return time.value() * 1e3; }

// Low, expected and high value of an estimate; low <= expected <= high.
template <class Q>
struct Range {
  Q low, expected, high;

  constexpr bool operator==(const Range&) const = default;
  constexpr Range& operator+=(const Range& other) {
    low += other.low;
    expected += other.expected;
    high += other.high;
    return *this;
  }
  friend constexpr Range operator+(Range a, const Range& b) { return a += b; }
  friend constexpr Range operator*(const Range& a, double factor) {
    return {a.low * factor, a.expected * factor, a.high * factor};
  }
  friend constexpr Range operator-(const Range& a) {
    return {a.high * -1.0, a.expected * -1.0, a.low * -1.0};
  }
};

}  // namespace rooftile
