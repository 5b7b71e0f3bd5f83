// The program around README.md's example in Java.
import java.util.Map;
import org.dpiframe.Model;
import org.dpiframe.Rows;
import org.dpiframe.Scores;

public final class Score {
  public static void main(String[] args) {
@@
  }
}
