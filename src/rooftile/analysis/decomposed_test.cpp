#include "rooftile/analysis/decomposed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<Decomposed> found_in(const std::string& text) {
  const Result<Workload> workload = parse_workload(text);
  EXPECT_TRUE(workload) << text;
  return find_decomposed(*workload, Graph(*workload));
}

// The mean of squares over 16 columns of 10 rows, with these operations behind it.
std::string norm_of(const std::string& behind,
                    const std::string& square = "fn=pow elements=160 from=x") {
  return "elementwise p fp32 " + square +
         " to=p\nreduce m fp32 fn=mean elements=160 outputs=10 from=p to=m\n" + behind;
}

const std::string kRoot =
    "elementwise e fp32 fn=add elements=10 from=m to=e\n"
    "elementwise r fp32 fn=rsqrt elements=10 from=e to=r\n";
const std::string kScaled = "elementwise n fp32 fn=mul elements=160 inputs=2 from=x,r to=n\n";

TEST(Decomposed, RmsNorms) {
  const auto plain = found_in(norm_of(kRoot + kScaled));
  ASSERT_EQ(plain.size(), 1U);
  EXPECT_EQ(plain[0].replacement, Body(Normalization{NormKind::rms, 10, 16}));
  EXPECT_THAT(plain[0].ops, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(
      found_in(norm_of(kRoot + "elementwise n fp32 fn=div elements=160 from=x,r to=n\n")).size(),
      1U);
  EXPECT_EQ(found_in(norm_of(kRoot + kScaled, "fn=mul elements=160 inputs=2 from=x,x")).size(), 1U);
}

TEST(Decomposed, WeightsAndBiasBelongToTheNorm) {
  const std::string weights = "elementwise w fp32 fn=mul elements=160 from=n to=w\n";
  const std::string bias = "elementwise b fp32 fn=add elements=160 from=w to=b\n";
  const auto ops = [&](const std::string& behind) {
    return found_in(norm_of(kRoot + kScaled + behind)).at(0).ops;
  };
  EXPECT_THAT(ops(weights + bias), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(ops(weights), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(ops("elementwise w fp32 fn=mul elements=160 inputs=2 from=n,z to=w\n"),
              ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(ops("elementwise w fp32 fn=add elements=160 from=n to=w\n"),
              ElementsAre(0, 1, 2, 3, 4));
}

// What is squared is the input less its mean.
TEST(Decomposed, LayerNorms) {
  const auto centred = [](const char* mean_of, const char* mean = "mean") {
    return found_in(std::string("reduce a fp32 fn=") + mean +
                    " elements=160 outputs=10 from=" + mean_of +
                    " to=a\nelementwise x fp32 fn=sub elements=160 inputs=2 from=z,a to=x\n" +
                    norm_of(kRoot + kScaled));
  };
  EXPECT_EQ(centred("z").at(0).replacement, Body(Normalization{NormKind::layer, 10, 16}));
  EXPECT_THAT(centred("z").at(0).ops, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  for (const auto& other : {centred("y"), centred("z", "max")}) {
    EXPECT_EQ(other.at(0).replacement, Body(Normalization{NormKind::rms, 10, 16}));
    EXPECT_THAT(other.at(0).ops, ElementsAre(2, 3, 4, 5, 6));
  }
}

TEST(Decomposed, OtherMeansStay) {
  const std::string cases[] = {
      "reduce m fp32 fn=mean elements=160 outputs=10 from=x to=m\n" + kRoot + kScaled,
      "reduce m fp32 fn=mean elements=160 outputs=10 to=m\n" + kRoot + kScaled,
      norm_of(kRoot + kScaled, "fn=exp elements=160 from=x"),
      norm_of(kRoot + kScaled, "fn=mul elements=160 inputs=2 from=x,y"),
      norm_of(kRoot + kScaled, "fn=pow elements=160"),
      norm_of(kRoot + "elementwise n fp32 fn=mul elements=160 inputs=2 from=y,r to=n\n"),
      norm_of(kRoot + "elementwise n fp32 fn=add elements=160 inputs=2 from=x,r to=n\n"),
      // More than one value for each row.
      norm_of("elementwise e fp32 fn=add elements=11 from=m to=r\n" + kScaled),
      norm_of("softmax r fp32 rows=1 cols=10 from=m to=r\n" + kScaled),
      // Another reader of the root.
      norm_of(kRoot + kScaled + "elementwise z fp32 fn=relu elements=10 from=r to=z\n"),
      norm_of(kRoot),
  };
  for (const std::string& text : cases) EXPECT_THAT(found_in(text), IsEmpty()) << text;
}

// Four operations on the means, and no more.
TEST(Decomposed, FewStepsLieBetween) {
  const auto steps = [](int count) {
    std::string text, before = "m";
    for (int i = 0; i < count; ++i) {
      const std::string name = i + 1 == count ? "r" : "s" + std::to_string(i);
      text += "elementwise s fp32 fn=add elements=10 from=" + before + " to=" + name + "\n";
      before = name;
    }
    return found_in(norm_of(text + kScaled)).size();
  };
  EXPECT_EQ(steps(1), 1U);
  EXPECT_EQ(steps(4), 1U);
  EXPECT_EQ(steps(5), 0U);
}

TEST(Decomposed, Softmaxes) {
  const std::string maximum =
      "reduce a fp32 fn=max elements=160 outputs=10 from=z to=a\n"
      "elementwise b fp32 fn=sub elements=160 inputs=2 from=z,a to=x\n";
  const std::string rest =
      "elementwise e fp32 fn=exp elements=160 from=x to=e\n"
      "reduce s fp32 fn=sum elements=160 outputs=10 from=e to=s\n"
      "elementwise d fp32 fn=div elements=160 inputs=2 from=e,s to=d\n";
  const auto whole = found_in(maximum + rest);
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_EQ(whole[0].replacement, Body(Softmax{10, 16}));
  EXPECT_THAT(whole[0].ops, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(found_in(rest).at(0).ops, ElementsAre(0, 1, 2));
  const std::string mean =
      "reduce a fp32 fn=mean elements=160 outputs=10 from=z to=a\n"
      "elementwise b fp32 fn=sub elements=160 inputs=2 from=z,a to=x\n";
  EXPECT_THAT(found_in(mean + rest).at(0).ops, ElementsAre(2, 3, 4));
  for (const char* other : {"elementwise e fp32 fn=tanh elements=160 from=x to=e\n"
                            "reduce s fp32 fn=sum elements=160 outputs=10 from=e to=s\n"
                            "elementwise d fp32 fn=div elements=160 inputs=2 from=e,s to=d\n",
                            "elementwise e fp32 fn=exp elements=160 from=x to=e\n"
                            "reduce s fp32 fn=sum elements=160 outputs=10 from=e to=s\n"
                            "elementwise d fp32 fn=div elements=160 inputs=2 from=x,s to=d\n",
                            "reduce s fp32 fn=sum elements=160 outputs=10 to=s\n"}) {
    EXPECT_THAT(found_in(other), IsEmpty()) << other;
  }
}

TEST(Decomposed, OfTheForwardPassAlone) {
  EXPECT_THAT(found_in("elementwise e fp32 fn=exp elements=160 from=x to=e\n"
                       "reduce s fp32 fn=sum elements=160 outputs=10 from=e to=s phase=dgrad\n"
                       "elementwise d fp32 fn=div elements=160 inputs=2 from=e,s to=d\n"),
              IsEmpty());
}

}  // namespace
}  // namespace rooftile
