module dpiframe.org/dpi

go 1.19
