# For builds on top of the ros-* wheels, given as -DCMAKE_PROJECT_INCLUDE=…/wheel_underlay.cmake.
# The wheels' exported Python targets name include folders of the machine that built them; CMake refuses
# targets whose folders do not exist. Once all packages are found, point those targets at this machine's
# Python. A real ROS install never needs this.
function(floorgent_repair_imported_targets)
  get_directory_property(targets DIRECTORY ${CMAKE_SOURCE_DIR} IMPORTED_TARGETS)
  foreach(target IN LISTS targets)
    if(target MATCHES "__rosidl_generator_py$")
      set_target_properties(${target} PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${Python3_INCLUDE_DIRS};${Python3_NumPy_INCLUDE_DIRS}")
    endif()
  endforeach()
endfunction()
cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL floorgent_repair_imported_targets)
