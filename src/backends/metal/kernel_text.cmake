# cmake -DSOURCES=a;b -DOUT=file -P kernel_text.cmake: the kernels of the metal backend as one text.
# Includes of
# the tree are dropped, because SOURCES are in order.
set(text "")
foreach(source ${SOURCES})
  file(READ ${source} part)
  string(REGEX REPLACE "#include \"[^\n]*\n" "" part "${part}")
  string(REPLACE "#pragma once\n" "" part "${part}")
  get_filename_component(name ${source} NAME)
  if(name STREQUAL "list.inc")
    string(APPEND text "#define FT_PLAIN(name)\n"
           "#define FT_INSTANCE(name, ...) "
           "template [[host_name(#name)]] kernel decltype(__VA_ARGS__) __VA_ARGS__;\n")
  endif()
  string(APPEND text "${part}")
endforeach()
# Compilers limit the length of one literal.
set(out "#include \"backends/metal/kernel_text.h\"\n\nnamespace ft::metal {\n\n")
string(APPEND out "const std::string& kernel_text() {\n")
string(APPEND out "  static const std::string text =\n")
string(LENGTH "${text}" left)
set(at 0)
while(left GREATER 0)
  string(SUBSTRING "${text}" ${at} 8000 piece)
  string(APPEND out "      R\"ft_text(${piece})ft_text\"\n")
  math(EXPR at "${at} + 8000")
  math(EXPR left "${left} - 8000")
endwhile()
string(APPEND out "      ;\n  return text;\n}\n\n}  // namespace ft::metal\n")
file(WRITE ${OUT} "${out}")
