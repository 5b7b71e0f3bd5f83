# Writes the bill of materials of a tree of files as SPDX 2.3 JSON: the SDK, its files with their digests, and what is linked into
# each of them. The same files give the same bytes.
#
#   cmake -DTABLE=... -DNAME=dpi-prefix -DVERSION=1.2.0 -DROOT=folder -DLIST=file -DOUT=file -P packaging/sbom.cmake
#
# TABLE is <build>/packaging/third_party.cmake; LIST has one line per file, relative to ROOT; links are left out. The time is
# SOURCE_DATE_EPOCH (default: 2026-01-01).
cmake_minimum_required(VERSION 3.25)
include(${TABLE})

# spdx_object(out key value...): an object of texts; a value that begins with [ or { is JSON already.
function(spdx_object out)
  set(object "{}")
  while(ARGN)
    list(POP_FRONT ARGN key value)
    if(NOT value MATCHES "^[[{]" AND NOT value MATCHES "^(true|false)$")
      string(REPLACE "\\" "\\\\" value "${value}")
      string(REPLACE "\"" "\\\"" value "${value}")
      set(value "\"${value}\"")
    endif()
    string(JSON object SET "${object}" "${key}" "${value}")
  endwhile()
  set(${out} "${object}" PARENT_SCOPE)
endfunction()

# spdx_append(list_variable object): to a list of JSON objects, kept as text.
macro(spdx_append variable object)
  if(NOT "${${variable}}" STREQUAL "")
    string(APPEND ${variable} ",\n")
  endif()
  string(APPEND ${variable} "${object}")
endmacro()

function(spdx_relation from type to)
  spdx_object(relation spdxElementId ${from} relationshipType ${type} relatedSpdxElement ${to})
  spdx_append(relations "${relation}")
  set(relations "${relations}" PARENT_SCOPE)
endfunction()

# The name under which the table knows a file: libdpi.so for libdpi.so.1.2.0.
function(spdx_kind out path)
  get_filename_component(kind ${path} NAME)
  string(REGEX REPLACE "\\.so[.0-9]*$" ".so" kind ${kind})
  if(kind STREQUAL "dpi" AND NOT path MATCHES "(^|/)bin/dpi$")
    set(kind "")
  endif()
  set(${out} "${kind}" PARENT_SCOPE)
endfunction()

set(files "")
set(packages "")
set(relations "")
set(sums "")
set(used "")
set(number 0)
file(STRINGS ${LIST} paths)
list(SORT paths)
foreach(path IN LISTS paths)
  if(IS_SYMLINK ${ROOT}/${path})
    continue()
  endif()
  math(EXPR number "${number} + 1")
  file(SHA1 ${ROOT}/${path} sha1)
  file(SHA256 ${ROOT}/${path} sha256)
  list(APPEND sums ${sha1})
  spdx_object(first algorithm SHA1 checksumValue ${sha1})
  spdx_object(second algorithm SHA256 checksumValue ${sha256})
  spdx_object(file SPDXID SPDXRef-File-${number} fileName ./${path} checksums "[${first},${second}]"
              licenseConcluded NOASSERTION copyrightText NOASSERTION)
  spdx_append(files "${file}")
  spdx_kind(kind ${path})
  foreach(name IN LISTS names)
    if(kind IN_LIST ${name}_inside)
      list(APPEND used ${name})
      string(REPLACE "+" "-plus" id ${name})
      set(relation STATIC_LINK)  # a table may name another
      if(DEFINED ${name}_relation)
        set(relation ${${name}_relation})
      endif()
      spdx_relation(SPDXRef-File-${number} ${relation} SPDXRef-Package-${id})
    endif()
  endforeach()
endforeach()

list(SORT sums)
list(JOIN sums "" all_sums)
string(SHA1 code "${all_sums}")
get_filename_component(own_name ${OUT} NAME)
spdx_object(verification packageVerificationCodeValue ${code})
spdx_object(package SPDXID SPDXRef-Package-dpi name dpi versionInfo ${VERSION} downloadLocation NOASSERTION filesAnalyzed true
            packageVerificationCode "${verification}" licenseConcluded Apache-2.0 licenseDeclared Apache-2.0
            licenseInfoFromFiles "[\"NOASSERTION\"]" copyrightText NOASSERTION supplier NOASSERTION)
spdx_append(packages "${package}")
list(REMOVE_DUPLICATES used)
foreach(name IN LISTS used)
  string(REPLACE "+" "-plus" id ${name})
  spdx_object(package SPDXID SPDXRef-Package-${id} name ${name} versionInfo ${${name}_version} downloadLocation ${${name}_url}
              filesAnalyzed false licenseConcluded ${${name}_license} licenseDeclared ${${name}_license} copyrightText NOASSERTION
              supplier NOASSERTION)
  spdx_append(packages "${package}")
endforeach()
spdx_relation(SPDXRef-DOCUMENT DESCRIBES SPDXRef-Package-dpi)
foreach(i RANGE 1 ${number})
  spdx_relation(SPDXRef-Package-dpi CONTAINS SPDXRef-File-${i})
endforeach()

if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
  set(ENV{SOURCE_DATE_EPOCH} 1767225600)
endif()
string(TIMESTAMP created "%Y-%m-%dT%H:%M:%SZ" UTC)
spdx_object(creation created ${created} creators "[\"Tool: dpi-${VERSION}\"]")
spdx_object(document spdxVersion SPDX-2.3 dataLicense CC0-1.0 SPDXID SPDXRef-DOCUMENT name ${NAME}-${VERSION}
            documentNamespace https://dpiframe.org/spdx/${NAME}-${VERSION}-${code} creationInfo "${creation}"
            packages "[${packages}]" files "[${files}]" relationships "[${relations}]")
if("cudart" IN_LIST used)
  spdx_object(eula licenseId ${cudart_license} name "NVIDIA CUDA Toolkit EULA" extractedText ${cudart_url})
  string(JSON document SET "${document}" hasExtractedLicensingInfos "[${eula}]")
endif()
file(WRITE ${OUT} "${document}\n")
