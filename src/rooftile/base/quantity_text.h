// Numbers for people: SI quantities scaled to the unit that reads best, three digits each. The only
// place where quantities become text: one that stands in a table and in a sentence reads the same.
#pragma once

#include <string>

#include "rooftile/base/units.h"

namespace rooftile {

// Rounded to `digits` significant digits, without exponent: 1234.5 with 3 digits is "1230".
std::string digits_text(double value, int digits = 3);

std::string time_text(Seconds time);  // "1.23 ms"
// Both ends in the unit of the high one, two digits each: "0.80–1.5 ms"; one number where they
// agree.
std::string range_text(const Range<Seconds>& range);
std::string flop_text(Flop work);            // "8.18 GFLOP"
std::string rate_text(FlopPerSecond rate);   // "312 TFLOP/s"
std::string rate_text(BytesPerSecond rate);  // "3.35 TB/s", decimal as data sheets have it
std::string bytes_text(Bytes size);          // what memory holds: "80.0 GiB", binary
std::string traffic_text(Bytes moved);       // what is moved, as rates: "13.4 GB", decimal
// "71.1 GiB (61.1–159)", ends in the unit of the expected value; without them where they agree.
std::string bytes_text(const Range<Bytes>& range);
std::string count_text(double count);  // "25.6 M"
std::string share_text(double share);  // 0.124 is "12 %"
// "+0.09 %", "-22 %", "+310 %": two digits below one, one below ten, else none.
std::string change_text(double fraction);

}  // namespace rooftile
