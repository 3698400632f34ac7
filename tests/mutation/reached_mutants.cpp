// Writes which mutants each test reaches to the file that ROOFTILE_MUTANTS_OF_TESTS names: a line
// of the test's name, its milliseconds, its result and the mutants' numbers.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <string>

#include "rooftile/base/active_mutant.h"

namespace {

std::set<int> take_marks() {
  std::set<int> numbers;
  for (int i = 0; i < rooftile_mutants::kMost; ++i) {
    if (rooftile_mutants::reached[i] != 0) numbers.insert(i);
  }
  std::memset(rooftile_mutants::reached, 0, rooftile_mutants::kMost);
  return numbers;
}

class Listener : public testing::EmptyTestEventListener {
 public:
  explicit Listener(const char* path) : out_(path) {}

  // What the set-up of all tests and of a suite reaches counts for each of its tests.
  void OnTestProgramStart(const testing::UnitTest&) override { of_all_ = take_marks(); }
  void OnTestSuiteStart(const testing::TestSuite&) override {
    take_marks();
    is_first_ = true;
  }
  void OnTestStart(const testing::TestInfo&) override {
    std::set<int> marks = take_marks();
    if (is_first_) of_suite_ = std::move(marks);
    is_first_ = false;
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    std::set<int> marks = take_marks();
    marks.insert(of_suite_.begin(), of_suite_.end());
    marks.insert(of_all_.begin(), of_all_.end());
    out_ << test.test_suite_name() << '.' << test.name() << '\t' << test.result()->elapsed_time()
         << '\t' << (test.result()->Failed() ? "failed" : "passed") << '\t';
    for (const int number : marks) out_ << number << ' ';
    out_ << std::endl;
  }

 private:
  std::ofstream out_;
  std::set<int> of_all_, of_suite_;
  bool is_first_ = false;
};

const bool kListens = [] {
  if (const char* path = std::getenv("ROOFTILE_MUTANTS_OF_TESTS")) {
    testing::UnitTest::GetInstance()->listeners().Append(new Listener(path));
  }
  return true;
}();

}  // namespace
