#include "rooftile/base/file_kind.h"

#include <algorithm>
#include <array>

#include "rooftile/base/text.h"

namespace rooftile {
namespace {

struct Signature {
  std::string_view start;
  std::string_view kind;
};

using namespace std::string_view_literals;

constexpr std::array<Signature, 23> kSignatures{{
    {"\xff\xd8\xff"sv, "a JPEG image"},
    {"\x89PNG\r\n"sv, "a PNG image"},
    {"GIF8"sv, "a GIF image"},
    {"%PDF"sv, "a PDF document"},
    {"PK\x03\x04"sv, "a zip archive"},
    {"\x1f\x8b"sv,
     "gzip-compressed data that is neither a PyTorch profiler trace nor an Nsight Systems export"},
    {"\xfd"
     "7zXZ"sv,
     "xz-compressed data (unpack it with 'unxz')"},
    {"BZh"sv, "bzip2-compressed data (unpack it with 'bunzip2')"},
    {"\x28\xb5\x2f\xfd"sv, "zstd-compressed data (unpack it with 'unzstd')"},
    {"\x7f"
     "ELF"sv,
     "an ELF program or library"},
    {"SQLite format 3"sv, "an SQLite database"},
    {"\x89HDF\r\n"sv, "an HDF5 file"},
    {"\x80\x02"sv, "a Python pickle"},
    {"\x80\x03"sv, "a Python pickle"},
    {"\x80\x04"sv, "a Python pickle"},
    {"\x80\x05"sv, "a Python pickle"},
    {"version https://git-lfs"sv, "a Git LFS pointer, not the file itself (run 'git lfs pull')"},
    {"<!DOCTYPE"sv, "an HTML page"},
    {"<!doctype"sv, "an HTML page"},
    {"<html"sv, "an HTML page"},
    {"<?xml"sv, "an XML document"},
    {"{"sv, "JSON text of another kind"},
    {"["sv, "JSON text of another kind"},
}};

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f';
}

}  // namespace

std::string_view describe_content(std::string_view head) {
  if (head.empty()) return "empty";
  const std::string_view text = trim(head);
  for (const Signature& signature : kSignatures) {
    if (head.starts_with(signature.start) || text.starts_with(signature.start)) {
      return signature.kind;
    }
  }
  return std::any_of(head.begin(), head.end(), is_control) ? "binary data" : "plain text";
}

}  // namespace rooftile
