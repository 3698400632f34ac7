# embed_files(RESULT FILE...): generates one source file that defines
#   std::span<const rooftile::EmbeddedFile> rooftile::RESULT();
# with the name (without folder and extension) and text of each file. The texts are sv literals,
# which know their length: counting so much text is beyond what a compiler does for a constant.
function(embed_files result)
  set(generated ${CMAKE_BINARY_DIR}/${result}.cpp)
  set(body "// Generated from the data folder.\n#include \"rooftile/base/embedded.h\"\n")
  string(APPEND body "namespace rooftile {\nnamespace {\nusing namespace std::string_view_literals;\n")
  string(APPEND body "constexpr EmbeddedFile kFiles[] = {\n")
  foreach(file ${ARGN})
    get_filename_component(name ${file} NAME_WE)
    file(READ ${file} text)
    string(APPEND body "{\"${name}\", R\"embedded(${text})embedded\"sv},\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  endforeach()
  string(APPEND body "{{}, {}}};  // a last empty entry: an array of size 0 is not C++\n}  // namespace\n")
  string(APPEND body
    "std::span<const EmbeddedFile> ${result}() { return std::span(kFiles).first(std::size(kFiles) - 1); }\n"
    "}  // namespace rooftile\n")
  file(CONFIGURE OUTPUT ${generated} CONTENT "@body@" @ONLY)
  set(${result} ${generated} PARENT_SCOPE)
endfunction()
