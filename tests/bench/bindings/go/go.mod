module dpiframe.org/dpi/bench

go 1.19

require dpiframe.org/dpi v1.0.0

replace dpiframe.org/dpi => ../../../../bindings/go
