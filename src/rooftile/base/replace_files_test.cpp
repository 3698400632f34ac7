#include "rooftile/base/replace_files.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "tests/support/temporary_folder.h"

namespace rooftile {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ReplaceFiles : public testing::Test {
 protected:
  std::string put(const std::string& name, const std::string& text) {
    return folder_.write(name, text);
  }
  std::string text_of(const std::string& name) { return folder_.read(name); }
  std::ptrdiff_t entries() {
    return std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator());
  }
  Result<void> replace(const std::vector<FileReplacement>& files) {
    return replace_files(folder_.string(), files);
  }

  TemporaryFolder folder_;
};

TEST_F(ReplaceFiles, ReplacesAllAndLeavesNothingBehind) {
  const std::string a = put("a.py", "old a"), b = put("b.py", "old b");
  ::chmod(a.c_str(), 0754);
  ASSERT_TRUE(replace({{a, "old a", "new a"}, {b, "old b", "new b"}}).has_value());
  EXPECT_EQ(text_of("a.py"), "new a");
  EXPECT_EQ(text_of("b.py"), "new b");
  EXPECT_EQ(static_cast<unsigned>(fs::status(a).permissions()), 0754u);
  EXPECT_EQ(entries(), 2);
}

TEST_F(ReplaceFiles, KeepsExtendedAttributes) {
  const std::string a = put("a.py", "old");
  if (::setxattr(a.c_str(), "user.note", "x", 1, 0) != 0) GTEST_SKIP() << "no attributes here";
  ASSERT_TRUE(replace({{a, "old", "new"}}).has_value());
  char value = 0;
  EXPECT_EQ(::getxattr(a.c_str(), "user.note", &value, 1), 1);
  EXPECT_EQ(value, 'x');
}

TEST_F(ReplaceFiles, OneThatChangedStopsAll) {
  const std::string a = put("a.py", "old a"), b = put("b.py", "edited meanwhile");
  const Result<void> done = replace({{a, "old a", "new a"}, {b, "old b", "new b"}});
  ASSERT_FALSE(done.has_value());
  EXPECT_THAT(done.error().message, HasSubstr("has changed since it was read"));
  EXPECT_EQ(text_of("a.py"), "old a");
  EXPECT_EQ(text_of("b.py"), "edited meanwhile");
  EXPECT_EQ(entries(), 2);
}

TEST_F(ReplaceFiles, RefusesASecondNameAndAFolder) {
  const std::string a = put("a.py", "old");
  fs::create_hard_link(a, folder_ / "b.py");
  EXPECT_THAT(replace({{a, "old", "new"}}).error().message, HasSubstr("hard link"));
  fs::create_directory(folder_ / "c.py");
  EXPECT_FALSE(replace({{(folder_ / "c.py").string(), "", "new"}}).has_value());
  EXPECT_EQ(text_of("b.py"), "old");
  EXPECT_EQ(entries(), 3);
}

TEST_F(ReplaceFiles, AForeignJournalMovesNothing) {
  const std::string a = put("a.py", "mine");
  put(".rooftile-7-0", "other");
  put(".rooftile-fix.journal", "1 2 3\n" + (folder_ / ".rooftile-7-0").string() + "\n" + a +
                                   "\n1 2 3\n/etc/hostname.tmp\n/etc/hostname\nstaged\n");
  EXPECT_TRUE(recover_files(folder_.string()).has_value());
  EXPECT_EQ(text_of("a.py"), "mine");
  EXPECT_EQ(entries(), 1);
}

// How often a fault is tried: ROOFTILE_FAULTS in the environment asks for more.
int faults(int usual) {
  const char* const asked = std::getenv("ROOFTILE_FAULTS");
  return asked == nullptr ? usual : std::atoi(asked);
}

// Whenever the process is killed: all files are old or all are new once the next call has
// recovered, and nothing else is left.
TEST_F(ReplaceFiles, KilledAtAnyMoment) {
  constexpr int kFiles = 4;
  const int kKills = faults(150);
  std::mt19937 random(1);
  std::vector<FileReplacement> forth, back;
  for (int i = 0; i < kFiles; ++i) {
    const std::string name = "f" + std::to_string(i) + ".py";
    const std::string path = put(name, "old");
    forth.push_back({path, "old", "new"});
    back.push_back({path, "new", "old"});
  }
  for (int kill = 0; kill < kKills; ++kill) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (;;) {
        static_cast<void>(replace_files(folder_.string(), forth));
        static_cast<void>(replace_files(folder_.string(), back));
      }
    }
    ::usleep(std::uniform_int_distribution<useconds_t>(0, 4000)(random));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ASSERT_TRUE(recover_files(folder_.string()).has_value());
    ASSERT_EQ(entries(), kFiles) << "after kill " << kill;
    for (int i = 1; i < kFiles; ++i) {
      ASSERT_EQ(text_of("f" + std::to_string(i) + ".py"), text_of("f0.py")) << "kill " << kill;
    }
    if (forth[0].before != text_of("f0.py")) std::swap(forth, back);
  }
}

// Writing ends at any byte of the new files or of the journal, as on a full disk.
TEST_F(ReplaceFiles, FullDiskAtAnyByte) {
  constexpr int kFiles = 3;
  const std::string fresh(700, 'n');
  std::vector<FileReplacement> files;
  for (int i = 0; i < kFiles; ++i) {
    files.push_back({put("f" + std::to_string(i) + ".py", "old"), "old", fresh});
  }
  std::mt19937 random(2);
  const int tries = faults(60);
  int refused = 0;
  for (int attempt = 0; attempt < tries; ++attempt) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlim_t bytes = std::uniform_int_distribution<rlim_t>(0, 1200)(random);
      const rlimit limit{bytes, bytes};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      ::_exit(replace(files).has_value() ? 0 : 1);
    }
    random.discard(1);
    int status = 0;
    ::waitpid(child, &status, 0);
    const bool done = WEXITSTATUS(status) == 0;
    refused += done ? 0 : 1;
    ASSERT_EQ(entries(), kFiles) << "attempt " << attempt;
    for (int i = 0; i < kFiles; ++i) {
      ASSERT_EQ(text_of("f" + std::to_string(i) + ".py"), done ? fresh : "old");
      put("f" + std::to_string(i) + ".py", "old");
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, tries);
}

// An editor saves one of the files again and again, the way editors do, while they are replaced:
// what it saved last is what stands, or what was made of it.
TEST_F(ReplaceFiles, WhatAnEditorSavesMeanwhileStays) {
  constexpr int kFiles = 2;
  const int saves = faults(300);
  std::vector<std::string> paths;
  for (int i = 0; i < kFiles; ++i) paths.push_back(put("f" + std::to_string(i) + ".py", "save -1"));
  const pid_t editor = ::fork();
  if (editor == 0) {
    for (int i = 0; i < saves; ++i) {
      const std::string& path = paths[static_cast<std::size_t>(i % kFiles)];
      const std::string draft = put("draft", "save " + std::to_string(i));
      std::rename(draft.c_str(), path.c_str());
      ::usleep(static_cast<useconds_t>(i % 7) * 100);
    }
    ::_exit(0);
  }
  const auto replaced = [&] {
    std::vector<FileReplacement> files;
    for (int i = 0; i < kFiles; ++i) {
      const std::string before = text_of("f" + std::to_string(i) + ".py");
      files.push_back({paths[static_cast<std::size_t>(i)], before,
                       before.substr(before.rfind("save")) + " save" +
                           before.substr(before.rfind("save") + 4)});
    }
    return replace(files).has_value();
  };
  while (::waitpid(editor, nullptr, WNOHANG) == 0) replaced();
  EXPECT_TRUE(replaced());  // how often before depends on the machine
  EXPECT_EQ(entries(), kFiles);
  for (int i = 0; i < kFiles; ++i) {
    const int last = (saves - 1 - i) / kFiles * kFiles + i;
    EXPECT_THAT(text_of("f" + std::to_string(i) + ".py"),
                testing::EndsWith("save " + std::to_string(last)));
  }
}

}  // namespace
}  // namespace rooftile
