# The ONNX library as ONNX::onnx and ONNX::onnx_proto. Its own package file insists on a protobuf
# that was built with CMake, which Debian's was not.
set(Protobuf_USE_STATIC_LIBS ON)
find_package(Protobuf REQUIRED)
find_file(ONNX_TARGETS ONNXTargets.cmake PATH_SUFFIXES lib/cmake/ONNX REQUIRED)
include(${ONNX_TARGETS})
target_link_libraries(ONNX::onnx INTERFACE ONNX::onnx_proto)
